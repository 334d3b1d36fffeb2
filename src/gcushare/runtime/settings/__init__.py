"""Settings: flag over environment over file over default, with help and every problem at once."""
