"""figures of arrays and records that were computed elsewhere"""
