"""What a shell offers when Tab is pressed behind `mgpu`, and the manual pages that are installed with that."""
