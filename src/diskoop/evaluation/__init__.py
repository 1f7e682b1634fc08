"""scores, and those who give them"""
