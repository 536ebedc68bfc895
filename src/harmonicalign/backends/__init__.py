"""Array engines: neighbours, eigenpairs and tall products for numpy, torch and Dask."""
