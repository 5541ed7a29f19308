"""What becomes of groups without a gradient: drawn anew, left out beforehand, replaced by earlier ones."""
