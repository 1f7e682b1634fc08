"""from settings to a trained run"""
