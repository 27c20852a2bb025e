"""Problem texts of other tools: XLA HLO, oneDNN's benchdnn, MIOpenDriver, ONNX; and the front door to all languages."""
