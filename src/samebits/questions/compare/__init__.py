"""Engines that run: each on exact integers and on the operands in question, judged, and their differences explained."""
