"""The live terminal view of a campaign."""
