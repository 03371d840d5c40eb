module oracle

go 1.19

require github.com/hellt/envsubst v0.2.0
