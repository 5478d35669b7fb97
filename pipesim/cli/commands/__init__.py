"""The commands, each in a module that is imported when it is called."""
