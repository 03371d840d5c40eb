"""Nothing here needs modules of the kernel or programs of Mininet's."""

OF_KMOD, OVS_KMOD, TUN = "ofdatapath", "openvswitch", "tun"


def lsmod():
    return ""


def rmmod(_mod):
    return ""


def modprobe(_mod):
    return ""


def moduleDeps(subtract=None, add=None):
    pass


def pathCheck(*_args, **_kwargs):
    pass
