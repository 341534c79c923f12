"""Jars by Maven, from poms of our own: brokers, MM2 and Spark's connector, each compared with its SHA-256."""
