"""the command line"""
