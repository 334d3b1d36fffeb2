"""JSON documents that our programs serve and read: inspect, explain, status."""
