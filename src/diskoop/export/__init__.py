"""runs for other programs: graphs that need no diskoop, and folders for model hubs"""
