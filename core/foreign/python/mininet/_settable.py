"""What nodes and interfaces have in common: methods that their parameters call."""


class Settable:
    """Something that is configured by parameters."""

    def setParam(self, results, method, **param):
        """Calls a method with a parameter that is not None; a list or dict holds its arguments."""
        (name, value), = param.items()
        function = getattr(self, method, None)
        if function is None or value is None:
            return None
        if isinstance(value, list):
            results[name] = function(*value)
        elif isinstance(value, dict):
            results[name] = function(**value)
        else:
            results[name] = function(value)
        return results[name]
