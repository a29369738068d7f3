"""Alert events: what is firing now, what has fired, and the hand-over of both to notification."""
