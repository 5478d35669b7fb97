"""Files of training frameworks: a model's `config.json` of Hugging Face."""
