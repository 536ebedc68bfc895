# From Seurat or SingleCellExperiment to harmonicalign and back, through h5ad files.
#
#   source("h5ad.R")
#   write_h5ad(object, "cells.h5ad")
#   system("harmonicalign align cells.h5ad --batch-key donor --out aligned.h5ad")
#   object <- read_alignment(object, "aligned.h5ad")
#
# Needs the package hdf5r. Nothing of Python is loaded into R.

library(hdf5r)

# What is asked of the two classes -------------------------------------------------------------------------

.is_sce <- function(object) methods::is(object, "SingleCellExperiment")

.assay_of <- function(object, what) {
  if (.is_sce(object)) {
    name <- c(data = "logcounts", counts = "counts")[[what]]
    if (!name %in% SummarizedExperiment::assayNames(object)) return(NULL)
    return(SummarizedExperiment::assay(object, name))
  }
  if (packageVersion("SeuratObject") >= "5.0.0") {
    assay <- object[[SeuratObject::DefaultAssay(object)]]
    if (methods::is(assay, "Assay5")) assay <- SeuratObject::JoinLayers(assay)
    if (!what %in% SeuratObject::Layers(assay)) return(NULL)
    return(SeuratObject::LayerData(assay, layer = what))
  }
  values <- SeuratObject::GetAssayData(object, slot = what)
  if (length(values) == 0) NULL else values
}

.cells_of <- function(object) {
  if (.is_sce(object)) as.data.frame(SummarizedExperiment::colData(object), optional = TRUE) else object[[]]
}

.features_of <- function(object, genes) {
  flags <- data.frame(row.names = genes)
  if (!.is_sce(object)) {
    variable <- SeuratObject::VariableFeatures(object)
    if (length(variable) > 0) flags$highly_variable <- genes %in% variable
  }
  flags
}

.reductions_of <- function(object) {
  if (.is_sce(object)) {
    found <- lapply(SingleCellExperiment::reducedDimNames(object), function(name) {
      as.matrix(SingleCellExperiment::reducedDim(object, name))
    })
    names(found) <- SingleCellExperiment::reducedDimNames(object)
    return(found)
  }
  names <- SeuratObject::Reductions(object)
  found <- lapply(names, function(name) SeuratObject::Embeddings(object[[name]]))
  names(found) <- names
  found
}

# Writing --------------------------------------------------------------------------------------------------

.text <- function() H5T_STRING$new(size = Inf)$set_cset("UTF-8")

.label <- function(node, type, version) {
  for (entry in list(c("encoding-type", type), c("encoding-version", version))) {
    node$create_attr(entry[1], robj = entry[2], dtype = .text(), space = H5S$new("scalar"))
  }
}

.write_strings <- function(group, name, values) {
  space <- H5S$new("simple", dims = length(values), maxdims = length(values))
  set <- group$create_dataset(name, dtype = .text(), space = space, chunk_dims = NULL)
  if (length(values) > 0) set[] <- enc2utf8(as.character(values))
  .label(set, "string-array", "0.2.0")
}

.write_array <- function(group, name, values) {
  # R counts along columns first and HDF5 along rows, so a matrix is written turned over.
  values <- if (is.matrix(values)) t(values) else values
  dtype <- if (is.logical(values)) H5T_LOGICAL$new(include_NA = FALSE) else NULL
  set <- group$create_dataset(name, robj = values, dtype = dtype, chunk_dims = NULL)
  .label(set, "array", "0.2.0")
}

.write_factor <- function(group, name, values) {
  inner <- group$create_group(name)
  .label(inner, "categorical", "0.2.0")
  inner$create_attr("ordered", robj = is.ordered(values), dtype = H5T_LOGICAL$new(include_NA = FALSE),
                    space = H5S$new("scalar"))
  codes <- as.integer(values) - 1L
  codes[is.na(codes)] <- -1L
  .write_array(inner, "codes", codes)
  .write_strings(inner, "categories", levels(values))
}

.write_column <- function(group, name, values) {
  if (is.character(values) && !anyNA(values)) return(.write_strings(group, name, values))
  if (is.factor(values)) return(.write_factor(group, name, values))
  if (is.character(values) || (is.logical(values) && anyNA(values))) {
    return(.write_factor(group, name, factor(values)))
  }
  if (is.integer(values) && anyNA(values)) values <- as.numeric(values)
  if (is.numeric(values) || is.logical(values)) return(.write_array(group, name, as.vector(values)))
  warning("column '", name, "' of class ", class(values)[1], " is left out")
}

.write_frame <- function(file, name, frame, index) {
  group <- file$create_group(name)
  .label(group, "dataframe", "0.2.0")
  group$create_attr("_index", robj = "_index", dtype = .text(), space = H5S$new("scalar"))
  .write_strings(group, "_index", index)
  for (column in colnames(frame)) .write_column(group, column, frame[[column]])
  written <- intersect(colnames(frame), names(group))
  space <- H5S$new("simple", dims = length(written), maxdims = length(written))
  order <- group$create_attr("column-order", dtype = .text(), space = space)
  if (length(written) > 0) order$write(written)
}

.write_matrix <- function(file, name, values) {
  # Genes by cells in compressed columns are cells by genes in compressed rows: the same three vectors.
  values <- methods::as(methods::as(values, "CsparseMatrix"), "generalMatrix")
  group <- file$create_group(name)
  .label(group, "csr_matrix", "0.1.0")
  group$create_attr("shape", robj = rev(dim(values)), dtype = h5types$H5T_NATIVE_INT64)
  group$create_dataset("data", robj = as.numeric(values@x), chunk_dims = NULL)
  group$create_dataset("indices", robj = values@i, chunk_dims = NULL)
  group$create_dataset("indptr", robj = values@p, chunk_dims = NULL)
}

#' Write a Seurat object or a SingleCellExperiment to an h5ad file.
#'
#' X holds the log-normalised values, or the counts if there are no others; counts are also the layer
#' "counts". Reductions become X_pca, X_umap and so on, metadata obs, and variable features
#' var["highly_variable"].
write_h5ad <- function(object, path) {
  data <- .assay_of(object, "data")
  counts <- .assay_of(object, "counts")
  values <- if (is.null(data)) counts else data
  if (is.null(values)) stop("the object has neither log-normalised values nor counts")
  if (anyDuplicated(colnames(values)) > 0) stop("cells have duplicated names; make them unique")
  file <- H5File$new(path, mode = "w")
  on.exit(file$close_all())
  .label(file, "anndata", "0.1.0")
  .write_matrix(file, "X", values)
  .write_frame(file, "obs", .cells_of(object), colnames(values))
  .write_frame(file, "var", .features_of(object, rownames(values)), rownames(values))
  for (part in c("obsm", "varm", "obsp", "varp", "layers", "uns")) .label(file$create_group(part), "dict", "0.1.0")
  reductions <- .reductions_of(object)
  for (name in names(reductions)) {
    .write_array(file[["obsm"]], paste0("X_", tolower(name)), unname(reductions[[name]]))
  }
  if (!is.null(counts) && !is.null(data)) .write_matrix(file[["layers"]], "counts", counts)
  invisible(path)
}

# Reading --------------------------------------------------------------------------------------------------

.read_column <- function(group, name) {
  node <- group[[name]]
  if (!inherits(node, "H5Group")) {
    values <- node[]
    return(if (is.factor(values)) as.character(values) == "TRUE" else as.vector(values))
  }
  if ("codes" %in% names(node)) {
    codes <- node[["codes"]][]
    codes[codes < 0] <- NA
    return(factor(node[["categories"]][][codes + 1L], levels = node[["categories"]][]))
  }
  values <- node[["values"]][]
  mask <- as.character(node[["mask"]][]) == "TRUE"
  values[mask] <- NA
  as.vector(values)
}

.read_graph <- function(group, cells) {
  n <- length(cells)
  graph <- Matrix::sparseMatrix(
    j = group[["indices"]][] + 1L, p = group[["indptr"]][], x = as.numeric(group[["data"]][]),
    dims = c(n, n), repr = "C"
  )
  dimnames(graph) <- list(cells, cells)
  graph
}

#' Add an alignment that harmonicalign wrote to the object that it was computed from.
#'
#' Adds the reduction `key`, the graph "<key>_connectivities" (Seurat), and every column of obs that the
#' object lacks, such as <key>_confidence or transferred labels. Cells are matched by name.
read_alignment <- function(object, path, key = "harmonic") {
  file <- H5File$new(path, mode = "r")
  on.exit(file$close_all())
  obs <- file[["obs"]]
  cells <- obs[[h5attr(obs, "_index")]][]
  own <- colnames(object)
  place <- match(own, cells)
  if (anyNA(place)) {
    stop(sum(is.na(place)), " of ", length(own), " cells are not in ", path, ", for example ",
         own[is.na(place)][1], "; write the object again, or give its cells the names in the file")
  }
  slot <- paste0("X_", key)
  if (!slot %in% names(file[["obsm"]])) {
    stop("obsm has no ", slot, "; it has ", paste(names(file[["obsm"]]), collapse = ", "))
  }
  coordinates <- t(file[["obsm"]][[slot]][, ])[place, , drop = FALSE]
  rownames(coordinates) <- own
  colnames(coordinates) <- paste0(key, "_", seq_len(ncol(coordinates)))
  known <- colnames(.cells_of(object))
  for (column in setdiff(h5attr(obs, "column-order"), known)) {
    values <- .read_column(obs, column)[place]
    if (.is_sce(object)) SummarizedExperiment::colData(object)[[column]] <- values
    else object[[column]] <- stats::setNames(data.frame(values, row.names = own), column)
  }
  if (.is_sce(object)) {
    SingleCellExperiment::reducedDim(object, key) <- coordinates
    return(object)
  }
  assay <- SeuratObject::DefaultAssay(object)
  object[[key]] <- SeuratObject::CreateDimReducObject(
    embeddings = coordinates, key = paste0(gsub("[^A-Za-z0-9]", "", key), "_"), assay = assay
  )
  graph <- paste0(key, "_connectivities")
  if (graph %in% names(file[["obsp"]])) {
    found <- SeuratObject::as.Graph(.read_graph(file[["obsp"]][[graph]], cells)[own, own])
    SeuratObject::DefaultAssay(found) <- assay
    object[[graph]] <- found
  }
  object
}
