"""Images in: arrays, files, folders of pictures, and how they become a network's input."""
