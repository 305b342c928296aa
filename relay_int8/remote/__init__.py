"""Both ends of TVM's RPC: a server that is safe to leave running, a client that cannot hang.

``address`` names where to connect, ``serve`` keeps a server going, ``server`` is that server's
process; ``client`` is the process that :func:`relay_int8.remote.deploy.deploy` starts and can kill.
"""
