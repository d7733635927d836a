"""What people see of the real-time strategy games: pictures, and maps in characters."""
