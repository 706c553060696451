"""What the tables mean: fees, gas, failures, traces, storage, activity. Frames in, frames out."""
