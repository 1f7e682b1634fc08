"""searches for settings: plans, trials shared by several workers, figures that need no labels"""
