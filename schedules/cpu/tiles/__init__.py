"""Register tiles of convolutions and dense layers: their rule, loops, copies and prefetches."""
