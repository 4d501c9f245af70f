"""The life of a call on the server: who calls, what is allowed, what is answered."""
