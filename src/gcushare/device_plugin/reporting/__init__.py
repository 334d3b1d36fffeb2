"""What the plugin says about itself: health, metrics and the status document."""
