"""What is in a case file, and how one is made of arrays: `samebits case`."""
