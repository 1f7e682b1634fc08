"""how fast it is, measured where it runs"""
