"""What people see: the join page, the room and the console; static files, and pages that a server writes."""
