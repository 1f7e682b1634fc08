"""what each command does, callable from Python"""
