"""sequences taken apart and put together"""
