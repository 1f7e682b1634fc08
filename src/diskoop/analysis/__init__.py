"""decomposition, editing, forecasting and discovery of factors"""
