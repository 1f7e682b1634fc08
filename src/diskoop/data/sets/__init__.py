"""named data sets"""
