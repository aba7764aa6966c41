[deadheat]
title=deadheat
description=Far end of transport races
ports=5210
