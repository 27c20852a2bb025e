"""Questions that a runner answers through its own operation alone; one question per file."""
