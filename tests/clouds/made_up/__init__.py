"""A made-up cloud and a made-up dialect of S3, each as docs/adding-a-cloud.md says.

They stand in no product. Their tests show that a cloud is one folder and one entry in a table: every reader, the wire,
the simulator, the probe and faults take them as they are.
"""
