"""Labs leave nothing behind that would have to be cleaned up."""


def cleanup():
    pass


def addCleanupCallback(_callback):
    pass


class Cleanup:
    cleanup = staticmethod(cleanup)
    addCleanupCallback = staticmethod(addCleanupCallback)
