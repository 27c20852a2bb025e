"""The sentences that stand inside findings: places, orders, evidence, summaries; `reports` lays out what is shown."""
