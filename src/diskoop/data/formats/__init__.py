"""the user's own files"""
