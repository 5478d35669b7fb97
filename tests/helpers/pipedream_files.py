"""Lines of PipeDream profiles."""


def node(number, name="Linear(in=4, out=8)", *, forward=1.0, backward=2.0, activation="64.0", parameters=0):
    return (
        f"node{number} -- {name} -- forward_compute_time={forward}, backward_compute_time={backward}, "
        f"activation_size={activation}, parameter_size={parameters}"
    )
