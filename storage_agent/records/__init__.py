"""Records: values by key and time that are no metrics, of analytics, applications and routing."""
