"""how people reach it"""
