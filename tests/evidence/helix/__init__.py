"""Apache Helix 1.4.3 as released, in one fleet with our controller and our participants."""
