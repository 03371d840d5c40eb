//! Tests of segmentation.
