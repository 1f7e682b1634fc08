"""sets drawn or computed here, nothing downloaded"""
