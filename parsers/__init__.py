"""Parsers turn the bytes of cluster logs into facts; they know no lake, no SQL, no statistics."""
