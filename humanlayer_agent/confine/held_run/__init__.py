"""A held run: a command whose changes lie in a layer until a human has seen them, and applies it or throws it away.

overlay_mount   puts layers over folders, in a mount namespace of the command's own, and starts it there
layer           what lies in a layer: which files would be made, changed or deleted, and what can't be known of it
application     makes exactly that so, and nothing where what lies below has changed
"""
