"""The sentences that stand inside findings: places, orders, evidence, summaries. What is shown is laid out in reports."""
