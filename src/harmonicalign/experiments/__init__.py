"""The experiments of the paper and the methods it compares with."""
