"""Metrics text of inference servers (vLLM, SGLang, TGI, Triton, TensorRT-LLM, NIM, …) → what they did per interval."""
