"""The command line of training, and the distance probe."""
